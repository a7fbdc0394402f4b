package auth_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/internal/auth"
	"millrace/internal/testkit"
)

func wrong() bool { return false }
func right() bool { return true }

// from is an attempt from an address.
func from(peer, account string) auth.Attempt {
	return auth.Attempt{Door: "web", Peer: peer + ":1234", Account: account}
}

// guesses makes wrong attempts and returns how many were looked at.
func guesses(th *auth.Throttle, n int, attempt func(i int) auth.Attempt) (looked int) {
	for i := range n {
		if th.Check(attempt(i), wrong) == auth.Wrong {
			looked++
		}
	}
	return looked
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := auth.NewThrottle(nil)
		victim, attacker := from("10.0.0.1", "ann"), from("10.6.6.6", "ann")
		if got := guesses(th, 100, func(int) auth.Attempt { return attacker }); got != 10 {
			t.Errorf("%d guesses at once", got)
		}
		if got := th.Check(attacker, right); got != auth.Limited {
			t.Errorf("the right one after many wrong ones: %d", got)
		}
		if got := th.Check(victim, right); got != auth.Right {
			t.Errorf("the account is locked from another address: %d", got)
		}
		if got := th.Check(from("10.6.6.6", "bob"), right); got != auth.Right {
			t.Errorf("another account at the same address: %d", got)
		}
		testkit.Advance(t, 5*time.Second)
		if got := th.Check(attacker, right); got != auth.Right {
			t.Errorf("still locked after a while: %d", got)
		}
		// A right one costs nothing, and who goes on guessing has one attempt every five seconds.
		looked := 0
		for range 1000 {
			looked += guesses(th, 10, func(int) auth.Attempt { return attacker })
			testkit.Advance(t, time.Second)
		}
		if looked != 200 {
			t.Errorf("%d guesses in 1000 seconds", looked)
		}
		testkit.Advance(t, time.Hour)
		if got := guesses(th, 100, func(int) auth.Attempt { return attacker }); got != 10 {
			t.Errorf("%d guesses after an hour", got)
		}
		if got := th.Counts()["web"]; got.Wrong != 220 || got.Limited != 90+1+9800+90 {
			t.Errorf("%+v", got)
		}
	})
}

// Guessing at many accounts, or saying that one is a proxy, gives more attempts, and not any number of them.
func TestThrottleAddress(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]func(i int) auth.Attempt{
		"accounts": func(i int) auth.Attempt { return from("10.6.6.6", fmt.Sprint(i)) },
		"forwarded": func(i int) auth.Attempt {
			a := from("10.6.6.6", "ann")
			a.Forwarded = fmt.Sprint("10.1.1.", i)
			return a
		},
		"a network of IPv6": func(i int) auth.Attempt { return from(fmt.Sprintf("[2001:db8::%x]", i), fmt.Sprint(i)) },
		"no address":        func(i int) auth.Attempt { return auth.Attempt{Peer: "@", Account: fmt.Sprint(i)} },
		"IPv4 within IPv6": func(i int) auth.Attempt {
			return from([]string{"10.0.0.1", "[::ffff:10.0.0.1]"}[i%2], fmt.Sprint(i))
		},
		"very long accounts": func(i int) auth.Attempt {
			return from("10.0.0.1", strings.Repeat("x", 1000)+fmt.Sprint(i))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			want := 60
			if strings.Contains(name, "long") {
				want = 10 // they are one account
			}
			if got := guesses(auth.NewThrottle(nil), 500, attempt); got != want {
				t.Errorf("%s: %d guesses", name, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		th := auth.NewThrottle(nil)
		proxied := func(client string) auth.Attempt {
			a := from("127.0.0.1", "")
			a.Forwarded = client
			return a
		}
		guesses(th, 100, func(int) auth.Attempt { return proxied("10.6.6.6") })
		if got := th.Check(proxied("10.0.0.1"), right); got != auth.Right {
			t.Errorf("another client of the same proxy: %d", got)
		}
	})
}

// A program that repeats one wrong secret locks nobody out, and is still looked at: the secret may have been made
// meanwhile.
func TestThrottleRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := auth.NewThrottle(nil)
		with := func(secret string) auth.Attempt {
			a := from("10.0.0.1", "ns")
			a.Secret = secret
			return a
		}
		if got := guesses(th, 1000, func(i int) auth.Attempt {
			return with([]string{"old", "older"}[i%2])
		}); got != 1000 {
			t.Errorf("%d looked at", got)
		}
		if got := th.Check(with("new"), right); got != auth.Right {
			t.Errorf("verdict %d", got)
		}
		if got := th.Check(with("old"), right); got != auth.Right {
			t.Errorf("a secret that was made meanwhile: %d", got)
		}
		if got := guesses(th, 1000, func(i int) auth.Attempt { return with(fmt.Sprint(i)) }); got != 8 {
			t.Errorf("%d guesses", got)
		}
	})
}

// However many addresses there are, memory is bounded.
func TestThrottleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := auth.NewThrottle(nil)
		for i := range 30_000 {
			th.Check(from(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "ann"), wrong)
		}
		if got := th.Budgets(); got > 10_000 {
			t.Errorf("%d budgets", got)
		}
		testkit.Advance(t, time.Hour)
		th.Check(from("10.0.0.1", "ann"), right)
		if got := th.Budgets(); got != 0 {
			t.Errorf("%d budgets are kept for nothing", got)
		}
	})
}

// Many at once are not more than the budget allows.
func TestThrottleAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := auth.NewThrottle(nil)
		th.Check(from("10.6.6.6", "ann"), wrong)
		var looked atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				looked.Add(int64(guesses(th, 100, func(int) auth.Attempt { return from("10.6.6.6", "ann") })))
			})
		}
		wg.Wait()
		if got := looked.Load(); got != 9 {
			t.Errorf("%d guesses", got)
		}
	})
}

func TestThrottleTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		th := auth.NewThrottle(slog.New(slog.NewTextHandler(&log, nil)))
		a := from("10.6.6.6", strings.Repeat("x", 1000))
		a.Secret = "not to be logged"
		guesses(th, 50, func(int) auth.Attempt { return a })
		testkit.Advance(t, 10*time.Second)
		th.Check(from("10.6.6.7", "ann"), wrong)
		text := log.String()
		if strings.Count(text, "login refused") != 2 || !strings.Contains(text, "since_last_told=50") ||
			!strings.Contains(text, "remote=10.6.6.7:1234") ||
			!strings.Contains(text, "door=web") || strings.Contains(text, "not to be logged") || len(text) > 1000 {
			t.Error(text)
		}
	})
}

func TestAttemptOf(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("X-Forwarded-For", "10.1.1.1, 10.2.2.2")
	want := auth.Attempt{Door: "web", Peer: r.RemoteAddr, Forwarded: "10.2.2.2", Account: "a", Secret: "s"}
	if got := auth.AttemptOf(r, "web", "a", "s"); got != want {
		t.Errorf("%+v", got)
	}
	var none *auth.Throttle
	if none.Check(want, right) != auth.Right || none.Check(want, wrong) != auth.Wrong {
		t.Error("without a throttle")
	}
}
