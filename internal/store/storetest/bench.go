package storetest

import (
	"encoding/binary"
	"fmt"
	"testing"

	"millrace/internal/store"
)

// jobLife appends what one short job leaves in the log: it is pushed with a body of
// 100 bytes, leased, and acknowledged.
func jobLife(b *store.Batch, id uint64, body []byte) {
	var buf [64]byte
	key := func(prefix string) []byte {
		return binary.BigEndian.AppendUint64(append(buf[:0], prefix...), id)
	}
	b.Set(key("body/default/emails/"), body)
	b.Set(key("job/"), body[:40])
	b.Set(key("ready/default/emails/"), nil)
	b.Delete(key("ready/default/emails/"))
	b.Set(key("job/"), body[:44])
	b.Set(key("lease/default/emails/"), nil)
	b.Delete(key("lease/default/emails/"))
	b.Delete(key("job/"))
	b.Delete(key("body/default/emails/"))
	b.Set([]byte("count/default/emails"), body[:24])
}

// BenchmarkCommit measures batches of 1, 32 and 256 short jobs.
func BenchmarkCommit(b *testing.B, open func(tb testing.TB) store.Store) {
	body := make([]byte, 100)
	for _, jobs := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			s := open(b)
			defer closeStore(b, s)
			var batch store.Batch
			var id uint64
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				for range jobs {
					id++
					jobLife(&batch, id, body)
				}
				if err := store.CommitNow(s, &batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(id)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
