#!/usr/bin/env bash
# Creates the topic with its partitions and registers the connector; may run again at any time. For the Debezium Connect
# image, which has Kafka's tools and curl. `setup.sh print` only prints the connector's filled configuration.
#
# Needs CONNECTOR_FILE and the variables that the file names as ${...}; to set up, also BOOTSTRAP_SERVERS, TOPIC, PARTITIONS
# and CONNECT_URL.
set -euo pipefail

# Fills ${NAME} from the environment, as the text of a JSON string.
fill() {
  local text=$1 name value
  while [[ $text =~ \$\{([A-Za-z_]+)\} ]]; do
    name=${BASH_REMATCH[1]}
    [[ -v $name ]] || { echo "$CONNECTOR_FILE names $name, which is not set" >&2; return 1; }
    value=${!name}
    value=${value//\\/\\\\}
    value=${value//\"/\\\"}
    [[ $value != *'${'* ]] || { echo "$name holds a placeholder itself" >&2; return 1; }
    text=${text//"\${$name}"/"$value"}
  done
  printf '%s' "$text"
}

# The worker takes the object under "config", the last member of the file.
config() {
  local file
  file=$(<"$CONNECTOR_FILE")
  file=${file#*\"config\"*:}
  fill "${file%\}*}"
}

name() {
  sed -n 's/^ *"name": *"\([^"]*\)".*/\1/p' "$CONNECTOR_FILE" | head -n 1
}

config=$(config)
if [[ ${1-} == print ]]; then
  printf '%s\n' "$config"
  exit
fi

/kafka/bin/kafka-topics.sh --bootstrap-server "$BOOTSTRAP_SERVERS" --create --if-not-exists \
  --topic "$TOPIC" --partitions "$PARTITIONS" --replication-factor 1

# PUT creates the connector or changes it. Retried, as a worker that is rebalancing answers 409.
connector=$CONNECT_URL/connectors/$(name)
answer=$(curl --fail-with-body --silent --show-error --retry 20 --retry-delay 3 --retry-all-errors \
  --request PUT --header 'Content-Type: application/json' --data @- "$connector/config" <<<"$config") ||
  { echo "$answer" >&2; exit 1; }

for _ in {1..60}; do
  status=$(curl --silent "$connector/status" || true)
  if [[ $status == *'"RUNNING"'*'"RUNNING"'* ]]; then # the connector and its task
    echo "$(name) is running"
    exit
  fi
  sleep 1
done
echo "$(name) does not run: $status" >&2
exit 1
