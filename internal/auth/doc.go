// Package auth owns what proves who somebody is: the TLS material of the listeners, and the roles that passwords and
// tokens give on HTTP listeners. It also tells what web pages of other sites ask of HTTP listeners, and bounds how
// often somebody may be wrong. It reads the files it is told to and hands out tls.Config values; it opens no socket and
// knows no protocol. The server package calls it.
package auth
