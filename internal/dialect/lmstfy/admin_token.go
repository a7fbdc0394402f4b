package lmstfy

import (
	"encoding/json"
	"errors"
	"net/http"

	"millrace/internal/job"
)

// The error texts of the admin API, byte for byte as the protocol has them.
const (
	textDescription   = "invalid description"
	textTokenShort    = "the user token was too short"
	textNamespaceLong = "the namespace name was too long"
	textNoPool        = "the pool was not exists"
	textLimitsJSON    = "the limits are not a JSON object with read, write and interval"
	textNoInterval    = "interval should be > 0"
	textBadInterval   = "limiter interval should be > 0"
	textManyAccounts  = "too many invalid passwords from this address, please retry later" // not of the original
	textBadLimits     = "the read and write of limiter can't be <= 0 at the same time"
)

// userTokenMin is the length of the shortest token that people may choose.
const userTokenMin = 20

// addToken makes a token for a namespace.
func (c *adminCall) addToken() {
	if err := c.r.ParseForm(); err != nil {
		c.fail(http.StatusBadRequest, textBody)
		return
	}
	key, err := c.d.addToken(c.poolParam(), c.namespace(), c.r.Form.Get("token"), c.r.Form.Get("description"))
	if refused, ok := errors.AsType[*job.Error](err); ok && refused.Kind == job.Invalid {
		c.fail(http.StatusBadRequest, refused.Text)
		return
	}
	switch {
	case errors.Is(err, errTokenExists):
		c.fail(http.StatusBadRequest, err.Error())
	case err != nil:
		c.internal(err)
	default:
		c.indented(http.StatusCreated, map[string]string{"token": key.shown()})
	}
}

// poolParam returns the pool in the query; the default one if there is none.
func (c *adminCall) poolParam() string {
	if name := c.r.URL.Query().Get("pool"); name != "" {
		return name
	}
	return poolDefault
}

// listTokens shows the tokens of a namespace, with their pool if it was asked for.
func (c *adminCall) listTokens() {
	pool := c.poolParam()
	if c.d.pools[pool] == nil {
		c.fail(http.StatusBadRequest, textNoPool)
		return
	}
	list := c.d.registry.listTokens(pool, c.namespace())
	if c.r.URL.Query().Get("pool") != "" {
		prefixed := make(map[string]string, len(list))
		for token, description := range list {
			prefixed[pool+":"+token] = description
		}
		list = prefixed
	}
	c.indented(http.StatusOK, map[string]any{"tokens": list})
}

// key names the token in the path.
func (c *adminCall) key() tokenKey {
	pool, token := splitToken(c.token())
	return tokenKey{pool, c.namespace(), token}
}

func (c *adminCall) dropToken() {
	key := c.key()
	if c.d.pools[key.pool] == nil {
		c.fail(http.StatusBadRequest, textNoPool)
		return
	}
	if err := c.d.registry.dropToken(key); err != nil {
		c.internal(err)
		return
	}
	c.empty(http.StatusNoContent)
}

// limitsAnswer wraps limits as the calls that change them answer.
type limitsAnswer struct {
	Limiter limits `json:"limiter"`
}

// limitsParam reads limits from the body. It has answered if it is not ok.
func (c *adminCall) limitsParam() (l limits, ok bool) {
	switch err := json.NewDecoder(c.r.Body).Decode(&l); {
	case err != nil:
		c.fail(http.StatusBadRequest, textLimitsJSON)
	case l.Read == 0 && l.Write == 0:
		c.json(http.StatusBadRequest, limitsAnswer{l})
	case l.Interval == 0:
		c.fail(http.StatusBadRequest, textNoInterval)
	case l.Interval < 0:
		c.fail(http.StatusInternalServerError, textBadInterval)
	case l.Read <= 0 && l.Write <= 0:
		c.fail(http.StatusInternalServerError, textBadLimits)
	default:
		return l, true
	}
	return l, false
}

func (c *adminCall) addLimits() { c.storeLimits(false, http.StatusCreated) }
func (c *adminCall) setLimits() { c.storeLimits(true, http.StatusOK) }

func (c *adminCall) storeLimits(replace bool, status int) {
	l, ok := c.limitsParam()
	if !ok {
		return
	}
	switch err := c.d.registry.setLimits(c.key(), l, replace); {
	case errors.Is(err, errLimiterExists):
		c.fail(http.StatusInternalServerError, "throttler token("+c.key().token+") "+err.Error())
	case errors.Is(err, errManyLimits), errors.Is(err, errLongToken), errors.Is(err, errTokenBytes):
		c.fail(http.StatusBadRequest, err.Error())
	case err != nil:
		c.internal(err)
	default:
		c.json(status, limitsAnswer{l})
	}
}

func (c *adminCall) getLimits() {
	l := c.d.registry.limiter(c.key())
	if l == nil {
		c.answer(http.StatusNotFound, []byte("null"))
		return
	}
	c.json(http.StatusOK, l.get())
}

func (c *adminCall) dropLimits() {
	if err := c.d.registry.removeLimits(c.key()); err != nil {
		c.internal(err)
		return
	}
	c.json(http.StatusOK, map[string]string{"msg": "success"})
}

// listLimits shows all limits. They are always the stored ones; to read them again
// is possible all the same.
func (c *adminCall) listLimits() {
	if c.r.URL.Query().Get("force_update") == "true" {
		if err := c.d.registry.load(); err != nil {
			c.internal(err)
			return
		}
	}
	type entry struct {
		Namespace string `json:"namespace"`
		Token     string `json:"token"`
		Limiter   limits `json:"limiter"`
	}
	list := []entry{}
	for _, l := range c.d.registry.listLimiters() {
		list = append(list, entry{l.namespace, l.shown(), l.limiter.get()})
	}
	c.json(http.StatusOK, list)
}
