/* which.c - prints the instruction set that runs. */
#include "kernels/kernels.h"

#include <stdio.h>

int main(void)
{
    puts(kernels_isa());
    return 0;
}
