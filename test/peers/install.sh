#!/bin/sh
# Gets the job servers that Millrace is measured next to: Redis, beanstalkd, Tarantool, PostgreSQL
# and RabbitMQ as Debian packages, as root, and Faktory, LMSTFY and NATS, in the versions of go.mod,
# built into the directory that is named. Where it cannot, it says so and goes on: the benchmark
# leaves out what is missing and names it.
set -u
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1" && bin=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")" || exit 1

. ../debian.sh
need redis-server command -v redis-server
need beanstalkd command -v beanstalkd
need tarantool command -v tarantool
need postgresql test -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)"
need rabbitmq-server test -x /usr/lib/rabbitmq/bin/rabbitmq-server
install_missing

go build -o "$bin/faktory" github.com/contribsys/faktory/cmd/faktory || echo "$0: could not build Faktory" >&2
go build -o "$bin/lmstfy" github.com/bitleak/lmstfy/server || echo "$0: could not build LMSTFY" >&2
go build -o "$bin/nats-server" github.com/nats-io/nats-server/v2 || echo "$0: could not build NATS" >&2
go build -o "$bin/load" ./load || echo "$0: could not build the load generator for the others" >&2
# The directory of PostgreSQL is in no path, and what Debian has in the path of RabbitMQ changes the user.
for program in /usr/lib/postgresql/*/bin/initdb /usr/lib/postgresql/*/bin/postgres /usr/lib/rabbitmq/bin/rabbitmq-server; do
	[ -x "$program" ] || continue
	name=$bin/${program##*/}
	rm -f "$name"
	printf '#!/bin/sh\nexec %s "$@"\n' "$program" >"$name" && chmod +x "$name"
done
cp queue.lua "$bin/" && chmod +x "$bin/queue.lua"
exit 0
