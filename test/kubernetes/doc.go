// Package kubernetes checks the manifests in packaging/kubernetes by the types of the Kubernetes API: every field must
// exist and have a value of its kind. It is a Go module of its own, so that the server does not depend on these.
package kubernetes
