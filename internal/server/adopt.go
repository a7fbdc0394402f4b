package server

import (
	"fmt"

	"millrace/internal/admin"
	"millrace/internal/dialect"
)

// adopt returns what reads the lines of a migration to a protocol: the dialect of the namespace, or the first there is.
func (s *server) adopt(protocol, namespace string) (func(line []byte) (admin.Arrived, error), error) {
	for _, d := range s.dialects {
		adopter, ok := d.figures.(dialect.Adopter)
		if !ok || d.protocol != protocol || namespace != "" && d.namespace != namespace {
			continue
		}
		return func(line []byte) (admin.Arrived, error) {
			a, err := dialect.ReadArrival(line)
			if err != nil {
				return admin.Arrived{}, err
			}
			if a.State == dialect.StateGone {
				return admin.Arrived{ID: a.ID, Gone: true}, nil
			}
			cmd, lost, err := adopter.Adopt(&a)
			return admin.Arrived{ID: a.ID, Cmd: cmd, Lost: lost}, err
		}, nil
	}
	if namespace != "" {
		return nil, fmt.Errorf("%q is not served in the namespace %q", protocol, namespace)
	}
	return nil, fmt.Errorf("%q is not served: give it an address in the configuration", protocol)
}
