package operator

import (
	"net/http"

	"millrace/internal/api"
	"millrace/internal/auth"
)

// What internal/httpapi makes of a service. It imports this package, so that tests in this package cannot import it:
// wire_test.go sets it.
var (
	NewHandler func(*Service, HandlerOptions) http.Handler
	Standby    func(Options, StandbyOptions) http.Handler
	NoLeader   func(w http.ResponseWriter, about string)
	ProbePaths func() []string
	Document   []byte
)

// HandlerOptions are those of internal/httpapi.
type HandlerOptions struct {
	Login   *auth.Login
	Mounted map[string]api.Handler
	Site    *auth.Site
	Metrics http.Handler
	Stats   http.Handler
	Health  http.Handler
	UI      http.Handler
}

// StandbyOptions are those of internal/httpapi.
type StandbyOptions struct {
	Cluster Cluster
	Login   *auth.Login
	Site    *auth.Site
	Metrics http.Handler
	Backup  func(dir string) error
	Leader  http.Handler
}

const bodyMax = 1 << 20 // bytes of a request
