package operator_test

import (
	"net/http"

	"millrace/internal/httpapi"
	"millrace/internal/operator"
)

func init() { //nolint:gochecknoinits // the tests of the package are driven over HTTP, and it cannot import what serves that
	operator.NewHandler = func(s *operator.Service, o operator.HandlerOptions) http.Handler {
		return httpapi.NewHandler(s, httpapi.HandlerOptions(o))
	}
	operator.Standby = func(o operator.Options, so operator.StandbyOptions) http.Handler {
		return httpapi.Standby(o, httpapi.StandbyOptions(so))
	}
	operator.NoLeader, operator.ProbePaths = httpapi.NoLeader, httpapi.ProbePaths
	operator.Document = httpapi.Document()
}
