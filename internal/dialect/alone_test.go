package dialect_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"millrace/internal/dialect"
)

// Of the long answers of a server, whichever handler makes them, one is made at a time.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := dialect.NewShared(0, 0)
		var begun int
		goOn := make(chan struct{})
		long := func(name string) http.Handler {
			return shared.Alone(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				begun++ // the race detector, too, sees whether two are here at a time
				<-goOn
				w.Header().Set("X-Name", name)
				w.WriteHeader(http.StatusTeapot)
				_, _ = fmt.Fprint(w, name, " is made")
			}))
		}
		ask := func(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			return w
		}
		names := []string{"one", "another", "a third"}
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				w := ask(t.Context(), long(name))
				if w.Code != http.StatusTeapot || w.Header().Get("X-Name") != name ||
					w.Body.String() != name+" is made" {
					t.Errorf("answer %d, %v, %q", w.Code, w.Header(), w.Body)
				}
			})
		}
		synctest.Wait()
		if begun != 1 {
			t.Errorf("%d answers are being made, want 1", begun)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if w := ask(gone, long("nobody")); w.Body.Len() != 0 {
			t.Errorf("a client that has gone was answered %q", w.Body)
		}
		for range names {
			goOn <- struct{}{}
		}
		wg.Wait()
		if begun != len(names) {
			t.Errorf("%d answers were made, want %d", begun, len(names))
		}
	})
}

// A client that does not read its answer holds nobody up, and neither does a handler that panics.
func TestAloneDoesNotWaitForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := dialect.NewShared(0, 0)
		h := shared.Alone(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("the handler is broken")
			}
			_, _ = fmt.Fprint(w, "made")
		}))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was kept from net/http")
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/panic", nil))
		}()
		read := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			h.ServeHTTP(unread{httptest.NewRecorder(), read}, httptest.NewRequest(http.MethodGet, "/", nil))
		})
		synctest.Wait()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || w.Body.String() != "made" {
			t.Errorf("answer %d %q", w.Code, w.Body)
		}
		close(read)
		wg.Wait()
	})
}

// unread takes no answer until it is told to.
type unread struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	<-u.read
	return u.ResponseRecorder.Write(b)
}
