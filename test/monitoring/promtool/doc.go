// Package promtool checks the alert rules, the dashboard and what a server exports with Prometheus's own tool.
// install.sh gets that from Debian's package. Where it is not, nothing is tested, except that it is an error in CI.
package promtool
