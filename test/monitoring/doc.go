// Package monitoring checks the dashboard and the alert rules of packaging/monitoring against a real server: a
// metric that is renamed must not leave an empty panel or an alert that never comes. Package promtool checks them
// with Prometheus's own tool, where that is.
package monitoring
