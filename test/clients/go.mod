// The clients of other people that the tests run against the server, apart from
// the server's own dependencies.
module millrace/test/clients

go 1.26.0

require (
	github.com/beanstalkd/go-beanstalk v0.2.0
	github.com/bitleak/lmstfy v1.0.15
	github.com/contribsys/faktory v1.9.3
	github.com/contribsys/faktory_worker_go v1.7.0
	github.com/google/uuid v1.6.0
	github.com/tarantool/go-iproto v1.1.0
	github.com/tarantool/go-tarantool/v2 v2.4.0
	millrace v0.0.0-00010101000000-000000000000
)

require (
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
)

replace millrace => ../..
