#!/bin/sh
# Builds the image, starts the services of compose.yaml, and waits until the dashboard answers and
# the example has a total of each item in Kafka.  Needs Docker with its plugin compose.
set -eu
cd "$(dirname "$0")/.."
PENSTOCK_SESSION_TOKEN=$(openssl rand -hex 32)
export PENSTOCK_SESSION_TOKEN
trap 'docker compose logs --tail 20; docker compose down --volumes' EXIT
docker compose up --build --detach
link=
while [ -z "$link" ]; do
    sleep 1
    docker compose ps --services --status running | grep -q jobmanager
    link=$(docker compose logs jobmanager | grep -o 'http://[^ ]*token=[^ ]*' | head -1)
done
address=$(docker compose port jobmanager 8081)
curl --fail --silent --show-error --output /dev/null \
    --header "Authorization: Bearer ${link#*token=}" "http://$address/overview"
docker compose run --rm -T --no-deps --entrypoint python example - <<'PROGRAM'
import json

from confluent_kafka import Consumer

consumer = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "reader", "auto.offset.reset": "earliest"})
consumer.subscribe(["totals"])
totals = {}
while len(totals) < 5:
    message = consumer.poll(1)
    if message is not None and message.error() is None:
        totals[json.loads(message.key())["item"]] = json.loads(message.value())
for item in sorted(totals):
    print(totals[item])
consumer.close()
PROGRAM
trap 'docker compose down --volumes' EXIT
echo "image built, session with dashboard at $address, the example has totals of five items"
