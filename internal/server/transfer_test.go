package server

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// What is sent to another node takes as long as the rate says, whatever it is written in.
func TestPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var to bytes.Buffer
		p := &paced{Writer: &to, rate: 1000, began: time.Now()}
		for _, size := range []int{1, 999, 4000} {
			if n, err := p.Write(make([]byte, size)); n != size || err != nil {
				t.Fatalf("%d of %d, %v", n, size, err)
			}
		}
		if took := time.Since(p.began); took != 5*time.Second || to.Len() != 5000 {
			t.Errorf("%d bytes in %v", to.Len(), took)
		}
	})
}
