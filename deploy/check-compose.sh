#!/usr/bin/env bash
# Validates the local stack's files without a container engine: docker-compose.yml with a real compose implementation
# (installed if there is none), the files that it mounts, and the connector's configuration as the setup job fills it.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "check-compose: $*" >&2
  exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Leaves the command in `compose`.
find_compose() {
  if docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
  elif command -v docker-compose >/dev/null; then
    compose=(docker-compose)
  elif [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null && install_from_debian; then
    compose=(docker-compose)
  else
    fail "there is no compose implementation, and none could be installed: as root, apt-get install docker-compose"
  fi
}

install_from_debian() {
  { apt-get install --yes --quiet --no-install-recommends docker-compose ||
    { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends docker-compose; }
  } >"$scratch/apt.log" 2>&1 || { tail -n 5 "$scratch/apt.log" >&2; return 1; }
}

find_compose
"${compose[@]}" --file docker-compose.yml config >"$scratch/config.yml" || fail "${compose[*]} refuses docker-compose.yml"
for service in postgres kafka connect setup highwater; do
  grep -q "^  $service:" "$scratch/config.yml" || fail "there is no service $service"
done

mounts=$(sed -n 's/^ *- \(\.\/[^:]*\):.*/\1/p' docker-compose.yml)
[[ -n $mounts ]] || fail "docker-compose.yml mounts no file, or in a form that this script does not know"
for file in $mounts Dockerfile Dockerfile.dockerignore; do
  [[ -s $file ]] || fail "$file is missing or empty"
done
for script in deploy/*.sh; do
  bash -n "$script" || fail "$script is no valid script"
done

filled=$(CONNECTOR_FILE=connectors/shop-orders.json DATABASE_HOST=postgres DATABASE_PORT=5432 DATABASE_NAME=shop \
  DATABASE_USER=cdc DATABASE_PASSWORD='a "quoted" \ p@ssw}rd & $x' bash deploy/setup.sh print)

# One topic in all three files: the connector writes what the setup job creates and Highwater reads.
python3 - "$filled" <<'PYTHON' || fail "the connector, the setup job and deploy/highwater.toml do not fit together"
import json, re, sys, tomllib

config = json.loads(sys.argv[1])
assert "${" not in sys.argv[1], "a placeholder is left"
assert config["database.password"] == 'a "quoted" \\ p@ssw}rd & $x', "the password does not survive the filling"
template = json.load(open("connectors/shop-orders.json"))["config"]
assert config.keys() == template.keys(), "the filled configuration has other settings than the file"
topic = config["topic.prefix"] + "." + config["table.include.list"]
compose = open("docker-compose.yml").read()
created = re.search(r"^ *TOPIC: (\S+)$", compose, re.M).group(1)
settings = tomllib.load(open("deploy/highwater.toml", "rb"))
read = [table["topic"] for table in settings["table"]]
assert read == [topic] and created == topic, f"connector {topic}, setup {created}, highwater {read}"
PYTHON

echo "check-compose: valid (${compose[*]})"
