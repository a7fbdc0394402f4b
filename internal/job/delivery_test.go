package job

import "testing"

// The engine hears of the end of a delivery only if it has asked while that was on its way.
func TestDelivery(t *testing.T) {
	t.Parallel()
	d := new(Delivery)
	if d.Await() || d.End() {
		t.Error("one that has not begun is on its way")
	}
	for _, asks := range []int{0, 1, 2} {
		d.Begin()
		for range asks {
			if !d.Await() {
				t.Error("it has begun and is not on its way")
			}
		}
		if got := d.End(); got != (asks > 0) {
			t.Errorf("asked %d times, told %v", asks, got)
		}
		if d.Await() || d.End() {
			t.Error("it is not over")
		}
	}
}
