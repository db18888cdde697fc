# address.sh - where a server with these options is reached. Sourced by ./run.

# curl_address OPTIONS... : set address (what curl is given in front of a route), key (its
# option for the API key, or nothing) and where (a sentence about it).
curl_address() {
    host=${LLAMA_ARG_HOST:-127.0.0.1} port=${LLAMA_ARG_PORT:-8080} prefix=${LLAMA_ARG_API_PREFIX:-}
    tls=${LLAMA_ARG_SSL_KEY_FILE:-} key=${LLAMA_API_KEY:-}${LLAMA_ARG_API_KEY_FILE:-} before=
    for argument in "$@"; do
        case $before in
        --host) host=$argument ;;
        --port) port=$argument ;;
        --api-prefix) prefix=$argument ;;
        --ssl-key-file) tls=$argument ;;
        --api-key | --api-key-file) key=$argument ;;
        esac
        before=$argument
    done
    scheme=http
    [ -z "$tls" ] || scheme=https
    [ -z "$key" ] || key=" -H 'Authorization: Bearer YOUR_KEY'"
    case $host in
    *.sock)
        address="--unix-socket $host $scheme://localhost$prefix"
        where="It listens on the Unix socket $host."
        return
        ;;
    0.0.0.0) host=127.0.0.1 ;;
    ::) host="[::1]" ;;
    *:*) host="[$host]" ;;
    esac
    where="The web address is $scheme://$host:$port$prefix."
    if [ "$port" = 0 ]; then
        port=PORT where="The web address, with a free port, follows when the server is ready."
    fi
    address=$scheme://$host:$port$prefix
}
