package auth

import (
	"hash/maphash"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How often somebody may be wrong. An address has a budget, and at the address every account has one: so who guesses at
// one account leaves the others alone, and who guesses elsewhere leaves this address alone. Budgets grow back with
// time, whatever is tried meanwhile, so that nobody is locked out for longer than it takes to earn one attempt.
const (
	addressBurst  = 60
	addressEvery  = time.Second
	accountBurst  = 10
	accountEvery  = 5 * time.Second
	throttleMax   = 10_000 // budgets that are kept: of those who were wrong last
	wrongKept     = 4      // secrets of an account that are known to be wrong
	throttleQuiet = 10 * time.Second
)

// RetryAfter is how long it takes to earn an attempt.
const RetryAfter = accountEvery

// Verdict is what became of a login.
type Verdict uint8

// The verdicts.
const (
	Wrong   Verdict = iota // the secret is not right
	Right                  // it is
	Limited                // it was not looked at: there were too many wrong ones
)

// Attempt is a login as far as it is known before the secret is looked at.
type Attempt struct {
	// Door is what the login opens, such as a protocol: what is counted and logged under it.
	Door string
	// Peer is the address that it comes from, and Forwarded the one that a proxy there says it works for.
	Peer      string
	Forwarded string
	// Account is who it claims to be. Those that do not exist should have one name for all, so that guessing names
	// gains nothing.
	Account string
	// Secret is what was sent, if it is the same each time. A program that repeats one wrong secret guesses nothing,
	// and does not use up the budget of others.
	Secret string
}

// AttemptOf returns the attempt of a request.
func AttemptOf(r *http.Request, door, account, secret string) Attempt {
	forwarded := r.Header.Get("X-Forwarded-For")
	if i := strings.LastIndexByte(forwarded, ','); i >= 0 {
		forwarded = forwarded[i+1:] // what the nearest proxy has added
	}
	return Attempt{
		Door: door, Peer: r.RemoteAddr, Forwarded: strings.TrimSpace(forwarded),
		Account: account, Secret: secret,
	}
}

// Throttle bounds how often secrets can be guessed. A nil one bounds nothing.
type Throttle struct {
	log  *slog.Logger
	seed maphash.Seed
	busy atomic.Bool // there are budgets

	mu      sync.Mutex // guards what follows
	budgets map[budgetKey]*budget
	oldest  *budget // the head of a ring in the order in which they were charged; nil: none
	counts  map[string]*LoginCounts
	told    time.Time
	untold  int
}

// LoginCounts are how many logins of a door failed: because the secret was wrong, and because there were too many such.
type LoginCounts struct{ Wrong, Limited uint64 }

// budgetKey says whose budget it is; an address as a whole has no client and no account.
type budgetKey struct {
	door            string
	peer            netip.Prefix
	client, account string
}

// budget is what is left of somebody's attempts. It is full at the instant it names, and has one attempt less for every
// interval before that.
type budget struct {
	key        budgetKey
	full       time.Time
	wrong      [wrongKept]uint64 // hashes of secrets that were wrong
	next       int               // the one of them that is overwritten next
	prev, succ *budget           // in the ring
}

// NewThrottle returns a Throttle that tells of wrong logins.
func NewThrottle(log *slog.Logger) *Throttle {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Throttle{
		log: log, seed: maphash.MakeSeed(), budgets: make(map[budgetKey]*budget), counts: make(map[string]*LoginCounts),
	}
}

// Check looks at a secret with right, unless there were too many wrong ones. It must not take long: logins are looked
// at one at a time while there are wrong ones, so that many at once are not more than the budget allows.
func (t *Throttle) Check(a Attempt, right func() bool) Verdict {
	if t == nil {
		return verdict(right())
	}
	if !t.busy.Load() && right() {
		return Right // nobody was wrong lately, which is the usual case
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.drop(now)
	address, account := a.keys()
	known := a.Secret != "" && t.isKnown(account, a.Secret)
	if !known && (!t.has(address, now, addressBurst, addressEvery) ||
		!t.has(account, now, accountBurst, accountEvery)) {
		t.count(a.Door).Limited++
		t.tell(a, now)
		return Limited
	}
	if right() {
		return Right
	}
	if !known {
		t.charge(address, now, addressEvery)
		t.remember(t.charge(account, now, accountEvery), a.Secret)
	}
	t.count(a.Door).Wrong++
	t.tell(a, now)
	return Wrong
}

func verdict(right bool) Verdict {
	if right {
		return Right
	}
	return Wrong
}

// Counts returns how many logins failed, by door.
func (t *Throttle) Counts() map[string]LoginCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]LoginCounts, len(t.counts))
	for door, c := range t.counts {
		out[door] = *c
	}
	return out
}

// keys returns whose budgets an attempt needs: that of the address, and that of the account there.
func (a *Attempt) keys() (address, account budgetKey) {
	address = budgetKey{door: a.Door, peer: prefixOf(a.Peer)}
	account = address
	account.client, account.account = a.Forwarded, a.Account
	if len(account.client) > clientMax {
		account.client = ""
	}
	if len(account.account) > clientMax {
		account.account = account.account[:clientMax]
	}
	account.account = "=" + account.account // an address as a whole has none
	return address, account
}

// clientMax bounds the texts of a key, which strangers choose.
const clientMax = 128

// prefixOf returns the network of an address: the address itself, or what one customer has of IPv6.
func prefixOf(peer string) netip.Prefix {
	text, _, err := net.SplitHostPort(peer)
	if err != nil {
		text = peer
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		bits = 32
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// has reports whether a budget has an attempt left. One that is not there is full.
func (t *Throttle) has(k budgetKey, now time.Time, burst int, every time.Duration) bool {
	b := t.budgets[k]
	return b == nil || b.full.Sub(now) <= time.Duration(burst-1)*every
}

// charge takes an attempt from a budget.
func (t *Throttle) charge(k budgetKey, now time.Time, every time.Duration) *budget {
	b := t.budgets[k]
	if b == nil {
		b = &budget{key: k}
		t.budgets[k] = b
		t.busy.Store(true)
	} else {
		t.remove(b)
	}
	t.append(b)
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(every)
	return b
}

// isKnown reports whether a secret was wrong before.
func (t *Throttle) isKnown(k budgetKey, secret string) bool {
	b := t.budgets[k]
	return b != nil && slices.Contains(b.wrong[:], t.hash(secret))
}

// remember notes a wrong secret.
func (t *Throttle) remember(b *budget, secret string) {
	if secret == "" {
		return
	}
	b.wrong[b.next] = t.hash(secret)
	b.next = (b.next + 1) % wrongKept
}

// hash makes a number of a secret, which tells nothing about it and is never zero.
func (t *Throttle) hash(secret string) uint64 { return maphash.String(t.seed, secret) | 1 }

func (t *Throttle) count(door string) *LoginCounts {
	c := t.counts[door]
	if c == nil {
		c = new(LoginCounts)
		t.counts[door] = c
	}
	return c
}

// tell logs a wrong login, at most one every ten seconds.
func (t *Throttle) tell(a Attempt, now time.Time) {
	t.untold++
	if now.Sub(t.told) < throttleQuiet {
		return
	}
	account := a.Account
	if len(account) > clientMax {
		account = account[:clientMax]
	}
	t.log.Warn("login refused: the password or token is wrong", slog.String("door", a.Door),
		slog.String("remote", a.Peer),
		slog.String("forwarded_for", a.Forwarded[:min(len(a.Forwarded), clientMax)]), slog.String("account", account),
		slog.Int("since_last_told", t.untold))
	t.told, t.untold = now, 0
}

// drop forgets budgets that are full again, beginning with the one that was charged first, and others only if there are
// too many.
func (t *Throttle) drop(now time.Time) {
	for b := t.oldest; b != nil && (!b.full.After(now) || len(t.budgets) > throttleMax-2); b = t.oldest {
		t.remove(b)
		delete(t.budgets, b.key)
	}
	t.busy.Store(len(t.budgets) > 0)
}

func (t *Throttle) append(b *budget) {
	if t.oldest == nil {
		b.prev, b.succ, t.oldest = b, b, b
		return
	}
	last := t.oldest.prev
	b.prev, b.succ, last.succ, t.oldest.prev = last, t.oldest, b, b
}

func (t *Throttle) remove(b *budget) {
	if b.succ == b {
		t.oldest = nil
		return
	}
	b.prev.succ, b.succ.prev = b.succ, b.prev
	if t.oldest == b {
		t.oldest = b.succ
	}
}

// Budgets returns how many budgets are kept.
func (t *Throttle) Budgets() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.budgets)
}
