# Each instruction set has its own files and flags; which one runs is decided
# at run time (table.c), so one binary serves every processor.
# Optimized in debug builds too: intrinsics only become instructions then.
# Compilers disagree on which shift counts of intrinsics are signed.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx512_flags -O3 -Wno-sign-conversion
      -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c)
  set_source_files_properties(
    src/kernels/avx512_panel.c src/kernels/avx512_float.c
    PROPERTIES COMPILE_OPTIONS "${avx512_flags}")
  set_source_files_properties(
    src/kernels/avx2_panel.c src/kernels/avx2_float.c
    PROPERTIES COMPILE_OPTIONS "-O3;-Wno-sign-conversion;-mavx2;-mfma;-mf16c")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set_source_files_properties(src/kernels/neon_panel.c src/kernels/neon_float.c
    PROPERTIES COMPILE_OPTIONS "-O3")
  set_source_files_properties(src/kernels/neon_dot.c
    PROPERTIES COMPILE_OPTIONS "-O3;-march=armv8.2-a+dotprod")
endif()
