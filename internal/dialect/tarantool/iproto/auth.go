package iproto

import (
	"crypto/sha1" //nolint:gosec // the protocol wants it
	"crypto/subtle"
)

// AuthMethod is the one way to log in, and ScrambleSize the length of what a client proves its password with.
const (
	AuthMethod   = "chap-sha1"
	ScrambleSize = sha1.Size
)

// Users holds for each user the hash of the hash of the password: enough to check
// an answer, not enough to give one.
type Users map[string][sha1.Size]byte

// NewUsers returns the users with these passwords.
func NewUsers(passwords map[string]string) Users {
	u := make(Users, len(passwords))
	for name, password := range passwords {
		first := sha1.Sum([]byte(password)) //nolint:gosec // the protocol wants it
		u[name] = sha1.Sum(first[:])        //nolint:gosec // the protocol wants it
	}
	return u
}

// Check reports whether scramble was made with the user's password and this salt
// (A.5). An unknown user costs the same time as a known one.
func (u Users) Check(name []byte, salt *[SaltSize]byte, scramble []byte) bool {
	hash, known := u[string(name)]
	h := sha1.New() //nolint:gosec // the protocol wants it
	h.Write(salt[:ScrambleSize])
	h.Write(hash[:])
	var mask [sha1.Size]byte
	h.Sum(mask[:0])
	var first [sha1.Size]byte
	subtle.XORBytes(first[:], scramble, mask[:])
	second := sha1.Sum(first[:]) //nolint:gosec // the protocol wants it
	return subtle.ConstantTimeCompare(second[:], hash[:]) == 1 && known
}
