#!/usr/bin/env bash
# Backend.AI's storage proxy as the peer of bench/daemon.py.
#   peers/backendai.sh up DIR      installs it into DIR, starts etcd, Redis and the proxy
#   peers/backendai.sh down DIR    stops them
# Needs Python 3.13 (PYTHON313=…, or found on the PATH) and Debian's etcd-server, etcd-client, redis-server.
set -euo pipefail
action=${1:?usage: backendai.sh up|down DIR} dir=$(realpath -m "${2:?usage: backendai.sh up|down DIR}")
version=26.9.6
etcd_url=http://127.0.0.1:12379

install() {
  [[ -x $dir/proxy/bin/backend.ai ]] && return
  local python=${PYTHON313:-python3.13}
  "$python" -m venv "$dir/proxy"
  "$dir/proxy/bin/pip" -q install "backend.ai-storage-proxy==$version"
}

config() {
  cat >"$dir/storage-proxy.toml" <<TOML
[etcd]
namespace = "local"
addr = { host = "127.0.0.1", port = 12379 }
[storage-proxy]
node-id = "peer"
num-proc = 2
event-loop = "uvloop"
ipc-base-path = "$dir/run/ipc"
scandir-limit = 1000
max-upload-size = "100g"
secret = "jwt-secret-for-tests"
session-expire = "1d"
aiomonitor-termui-port = 48300
aiomonitor-webui-port = 49300
use-watcher = false
[api.client]
service-addr = { host = "127.0.0.1", port = 16021 }
ssl-enabled = false
[api.manager]
service-addr = { host = "127.0.0.1", port = 16022 }
announce-addr = { host = "127.0.0.1", port = 16022 }
announce-internal-addr = { host = "127.0.0.1", port = 16024 }
internal-addr = { host = "127.0.0.1", port = 16024 }
ssl-enabled = false
secret = "mgr-secret"
[logging]
level = "WARNING"
drivers = ["console"]
[logging.pkg-ns]
"" = "WARNING"
[logging.console]
colored = false
format = "simple"
[volume.volume1]
backend = "vfs"
path = "$dir/volume1"
TOML
}

up() {
  mkdir -p "$dir"/{volume1,run/ipc,run/prom,redis}
  install
  config
  cd "$dir"
  etcd --data-dir etcd --listen-client-urls $etcd_url --advertise-client-urls $etcd_url \
    --listen-peer-urls http://127.0.0.1:12380 >etcd.log 2>&1 &
  echo $! >etcd.pid
  redis-server --bind 127.0.0.1 --port 16379 --save '' --dir redis >redis.log 2>&1 &
  echo $! >redis.pid
  for _ in $(seq 50); do
    ETCDCTL_API=3 etcdctl --endpoints 127.0.0.1:12379 put /sorna/local/config/redis/addr 127.0.0.1:16379 \
      >/dev/null 2>&1 && break
    sleep 0.2
  done
  BACKENDAI_PROMETHEUS_DIR=$dir/run/prom proxy/bin/backend.ai storage start-server -f storage-proxy.toml \
    >proxy.log 2>&1 &
  echo $! >proxy.pid
  for _ in $(seq 200); do
    curl -fs http://127.0.0.1:16021/ >/dev/null && return
    sleep 0.3
  done
  echo "the proxy did not come up; see $dir/proxy.log" >&2
  exit 1
}

down() {
  cd "$dir"
  local name
  for name in proxy etcd redis; do
    [[ -f $name.pid ]] && kill "$(<$name.pid)" 2>/dev/null
    rm -f $name.pid
  done
  true
}

"$action"
