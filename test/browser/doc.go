// Package browser tests the web UI in a real browser: the binary with jobs of several
// protocols, Debian's chromium, and scripts that visit every page and press every button. Only its tests
// have code. What is missing on the machine fails the test that needs it; nothing is skipped.
package browser
