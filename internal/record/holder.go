package record

import (
	"encoding/binary"
	"time"

	"millrace/internal/job"
)

// HolderKey appends the key of a holder that outlives restarts.
func HolderKey(dst []byte, name string) []byte { return append(append(dst, spaceHolder), name...) }

// AllHolders returns the range of all such holders, in order of their names.
func AllHolders() (lo, hi []byte) { return []byte{spaceHolder}, []byte{spaceHolder + 1} }

// AppendHolder appends a holder that outlives restarts, without its name.
func AppendHolder(dst []byte, h *job.KeptHolder) []byte {
	dst = binary.AppendUvarint(append(dst, holderVersion), uint64(h.Holder.Node))
	dst = binary.AppendUvarint(dst, h.Holder.Num)
	return binary.AppendVarint(dst, int64(h.Grace))
}

// DecodeHolder is the inverse of HolderKey and AppendHolder.
func DecodeHolder(key, value []byte) (h job.KeptHolder, err error) {
	if len(key) < 2 || key[0] != spaceHolder {
		return h, ErrFormat
	}
	d := decoder{b: value}
	if err := d.version("holder", holderVersion); err != nil {
		return h, err
	}
	h.Name = string(key[1:])
	h.Holder = job.Holder{Node: d.uint32(), Num: d.uvarint()}
	h.Grace = time.Duration(d.varint())
	return h, d.end("holder")
}
