package record

import (
	"encoding/binary"

	"millrace/internal/job"
)

// Progress is what has been reported of a tracked job.
type Progress struct {
	Percent    int64
	HasPercent bool
	Text       string
	At         job.Time // the last report
}

// Outcome is how a tracked job has ended, and until when that is known.
type Outcome struct {
	Progress
	How   job.Outcome
	ID    job.ID // the job that was
	Until job.Time
}

// OutcomeKey appends the key of the outcome of a job by its client-given key. Its
// value is an Outcome.
func OutcomeKey(dst []byte, namespace, key string) []byte {
	return append(appendText(append(dst, spaceOutcome), namespace), key...)
}

// OutcomesSpan returns the range of the outcomes of a namespace.
func OutcomesSpan(namespace string) (lo, hi []byte) { return textSpan(spaceOutcome, namespace) }

// AllOutcomes returns the range of the outcomes of all namespaces.
func AllOutcomes() (lo, hi []byte) { return []byte{spaceOutcome}, []byte{spaceOutcome + 1} }

// ParseOutcomeKey splits the key of an outcome.
func ParseOutcomeKey(k []byte) (namespace, key string, ok bool) { return parseNamed(k, spaceOutcome) }

// AppendProgress appends what has been reported.
func AppendProgress(dst []byte, p *Progress) []byte {
	return appendReported(append(dst, progressVersion), p)
}

func appendReported(dst []byte, p *Progress) []byte {
	dst = binary.AppendVarint(dst, int64(p.At))
	dst = appendString(dst, p.Text)
	if !p.HasPercent {
		return append(dst, 0)
	}
	return binary.AppendVarint(append(dst, 1), p.Percent)
}

// DecodeProgress is the inverse of AppendProgress.
func DecodeProgress(b []byte) (Progress, error) {
	d := decoder{b: b}
	if err := d.version("progress", progressVersion); err != nil {
		return Progress{}, err
	}
	p := d.reported()
	return p, d.end("progress")
}

func (d *decoder) reported() Progress {
	p := Progress{At: job.Time(d.varint()), Text: d.text(), HasPercent: d.byte() != 0}
	if p.HasPercent {
		p.Percent = d.varint()
	}
	return p
}

// AppendOutcome appends an Outcome.
func AppendOutcome(dst []byte, o *Outcome) []byte {
	dst = append(dst, progressVersion, byte(o.How))
	dst = binary.AppendUvarint(dst, uint64(o.ID))
	dst = binary.AppendVarint(dst, int64(o.Until))
	return appendReported(dst, &o.Progress)
}

// DecodeOutcome is the inverse of AppendOutcome.
func DecodeOutcome(b []byte) (Outcome, error) {
	d := decoder{b: b}
	if err := d.version("outcome", progressVersion); err != nil {
		return Outcome{}, err
	}
	o := Outcome{How: job.Outcome(d.byte()), ID: job.ID(d.uvarint()), Until: job.Time(d.varint())}
	o.Progress = d.reported()
	return o, d.end("outcome")
}
