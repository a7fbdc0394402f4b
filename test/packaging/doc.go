// Package packaging checks the files from which packages and images are made: the rules
// that a container image and a cluster of containers keep, the units of systemd, the
// manual page. Nothing is built; package deb does that where Debian's tools are.
package packaging
