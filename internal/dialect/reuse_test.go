package dialect

import "testing"

// What is undone is handed out again, empty, and nothing before it is touched.
func TestFreelistUndo(t *testing.T) {
	t.Parallel()
	var f Freelist[int]
	first, second := f.Get(), f.Get()
	*first, *second = 1, 2
	f.Undo()
	if again := f.Get(); again != second || *again != 0 || *first != 1 {
		t.Errorf("%p is %d, %p is %d", first, *first, again, *again)
	}
}
