package testkit

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// Advance lets d of bubble time pass and then waits until every goroutine of
// the bubble is idle.
func Advance(tb testing.TB, d time.Duration) {
	tb.Helper()
	if d > 0 {
		time.Sleep(d)
	}
	synctest.Wait()
}

// Main runs the tests of a package and fails if goroutines are left afterwards.
// It is called by TestMain and does not return.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			_, _ = os.Stderr.WriteString("goroutines left after the tests: " + err.Error() + "\n") // nobody to tell
			code = 1
		}
	}
	os.Exit(code)
}
