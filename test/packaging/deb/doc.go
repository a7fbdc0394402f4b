// Package deb builds the Debian package, looks into it, installs it below a directory
// and starts the server that it has installed. It needs dpkg and dpkg-deb; where they
// are not there, its tests say so and end.
package deb
