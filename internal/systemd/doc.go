// Package systemd is what a service and systemd tell each other: the sockets that
// systemd has opened for it, whether it is ready, stopping or alive.
//
// It owns the environment variables and the datagrams of that conversation, as
// sd_listen_fds(3) and sd_notify(3) describe them, and nothing else: what a socket
// serves and when the server is ready is for the server package, its only caller, to
// know. Outside of systemd every call is harmless and does nothing.
package systemd
