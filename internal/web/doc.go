// Package web is the web UI: pages made on the server from what operator.Service tells, and
// forms whose actions are its methods. It keeps no state of its own about jobs, and it never goes round
// the service.
//
// Every page can be read and every form used without JavaScript. With it, figures move by
// themselves (server-sent events and small requests by htmx), charts are drawn (uPlot) and
// keys work. A page never holds a script or a style of its own: the content security policy
// forbids it, so that nothing that a job holds can ever run.
//
// The server package mounts the handler beside the API. The package starts no goroutine.
package web
