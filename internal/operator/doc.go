// Package operator is the operator's side of the server: what an operator sees and does, as methods of Service.
//
// Service is the one layer: the handlers of the API and the pages of the web UI call the same
// methods, and every change is a command of the engine. A method does a bounded amount of
// work. Lists stop early rather than late and hand out a cursor; what concerns more jobs
// than one request may touch is a bulk action, which runs in small steps of its own.
//
// The package knows no protocol and opens no socket. What it shows of them (workers,
// connections, settings) comes through the functions of Options, which the server package
// wires.
//
// Two goroutines belong to a Service, both ended by Close: the sampler, which reads the counters of
// all queues for everybody who watches and for the history, and the runner of bulk actions. The locks of the two are
// never held together; the runner's step is locked before its mu.
package operator
