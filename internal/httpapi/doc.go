// Package httpapi serves the operator API: JSON over HTTP under /api/v1, with its document, health checks, metrics and
// the profiler beside it. A handler reads the request, calls one method of the service and writes what that returns;
// it decides nothing. Who may call what, and what a request may carry, is in the table of routes.
package httpapi
