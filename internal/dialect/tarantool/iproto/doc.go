// Package iproto reads and writes the packets of IPROTO, which every connector of Tarantool 1.6 and later speaks:
// frames, requests, replies, MessagePack values and the check of a login. It knows bytes only, nothing of queues.
//
//	value.go, args.go, skip.go  MessagePack as it arrived
//	frame.go, request.go        packets of clients
//	reply.go                    packets of the server
//	auth.go                     who a client is
//
// Section numbers are those of the protocol's description.
package iproto
