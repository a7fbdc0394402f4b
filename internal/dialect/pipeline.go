package dialect

import (
	"errors"
	"io"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Speaker is what a protocol adds to a Pipeline. Its methods run on the connection's goroutine.
type Speaker interface {
	// HasLine reports whether Read will not have to wait.
	HasLine() bool
	// Read reads the next command, or its first line, and sets Verb. It returns how many bytes of the command are still
	// to be read. With more there are commands before it in its unit, and HasLine was true.
	Read(more bool) (rest int64, err error)
	// Take adds the command that was read to the unit. Later tells that it cannot be a part of one. It must wait for no
	// input, except for the rest of the first command of a unit.
	Take(u *Unit) (later bool, err error)
	// Render appends the reply to a command of a unit that is done. It reports whether that is no error.
	Render(out []byte, u *Unit, r *Reply) ([]byte, bool)
	// Later does the command that was taken last, after its unit.
	Later() error
}

var (
	// ErrQuit means that the client has asked for the end of the connection, and was answered.
	ErrQuit = errors.New("end of the session")
	// ErrPanic stands for the reason of an end that no code returned.
	ErrPanic = errors.New("panic")
)

// Pipeline serves a connection whose commands are answered in the order in which they come. Those that were received
// together are submitted as one unit, and their replies leave together.
type Pipeline struct {
	*Conn
	Verb   uint8 // of the command that was read last
	Failed bool  // Later has answered an error

	engine  Engine
	tally   Tally
	counted bool // Later has counted its command
	pending bool // a command was read of which the rest has not arrived

	// A command that may wait has its own request, so that a waiting connection needs no unit.
	waitCmd [1]job.Command
	waitReq engine.Request
}

// Serve does what the client asks until the connection ends, and returns why it ended. What has not been sent by then
// is for the caller to flush.
func (p *Pipeline) Serve(s Speaker) error {
	for {
		if !p.pending {
			if _, err := s.Read(false); err != nil {
				return err
			}
		}
		p.Begin()
		later, err := p.unit(s)
		if later && err == nil {
			p.Failed, p.counted = false, false
			err = s.Later()
			if !p.counted {
				p.Ended(!p.Failed && (err == nil || errors.Is(err, ErrQuit)))
			}
		}
		// Replies to what has been received already leave together.
		if err == nil && (p.OutFull() || p.pending || !s.HasLine()) {
			err = p.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// Begin is called when the first command of a unit has been read, by whoever reads one without Serve.
func (p *Pipeline) Begin() {
	p.Turn()
	p.tally.Begin()
}

// Ended counts the command that was read last, which is answered alone.
func (p *Pipeline) Ended(ok bool) {
	p.counted = true
	p.tally.Ended(int(p.Verb), ok)
}

// unit takes the command that was read and those behind it that have been received already, submits them as one unit
// and renders the replies. An error concerns what follows the unit.
func (p *Pipeline) unit(s Speaker) (later bool, err error) {
	u := GetUnit()
	defer u.Release()
	p.pending = false
	later, err = p.take(s, u)
	for !later && err == nil && !u.full() && s.HasLine() {
		var rest int64
		if rest, err = s.Read(true); err != nil {
			break
		}
		// To wait for the rest would invalidate the input that the commands before it refer to.
		if int64(p.Buffered()) < rest {
			p.pending = true
			break
		}
		later, err = p.take(s, u)
	}
	if len(u.Commands) > 0 {
		p.Do(p.engine, &u.Request)
	}
	p.answer(s, u)
	return later, err
}

// take takes a command into the unit, with the verb that its reply counts for.
func (p *Pipeline) take(s Speaker, u *Unit) (later bool, err error) {
	n := len(u.Replies)
	later, err = s.Take(u)
	if len(u.Replies) > n {
		u.Replies[n].Verb = p.Verb
	}
	return later, err
}

// answer renders the replies of a unit that is done and counts them.
func (p *Pipeline) answer(s Speaker, u *Unit) {
	if len(u.Replies) == 0 {
		return
	}
	took := p.tally.Took()
	out := p.Out()
	for i := range u.Replies {
		var ok bool
		out, ok = s.Render(out, u, &u.Replies[i])
		p.tally.Count(int(u.Replies[i].Verb), ok, took)
	}
	p.SetOut(out)
}

const crlf = "\r\n"

// ReadBody reads the body of a command, which CR LF ends. It reports whether it does.
func (p *Pipeline) ReadBody(size int) (body []byte, ended bool, err error) {
	n := size + len(crlf)
	if err := p.FlushFor(int64(n)); err != nil {
		return nil, false, err
	}
	b, err := p.ReadBlock(n)
	if err != nil {
		return nil, false, err
	}
	return b[:size:size], string(b[size:]) == crlf, nil
}

// FlushFor is called before the next n bytes are read: the client may wait for earlier replies before it sends them.
func (p *Pipeline) FlushFor(n int64) error {
	if int64(p.Buffered()) >= n {
		return nil
	}
	return p.Flush()
}

// Wait runs a command that may wait, and counts it. The replies before it leave first. Answer renders the result, which
// is sent at once. A delivery that does not reach the client is given back. If the client goes meanwhile the error is
// io.EOF.
func (p *Pipeline) Wait(cmd job.Command, answer func(*job.Result)) error {
	p.counted = true
	if err := p.Flush(); err != nil {
		return err
	}
	p.waitCmd[0] = cmd
	p.waitReq.Commands = p.waitCmd[:]
	gone := p.Await(p.engine, &p.waitReq)
	res := &p.waitReq.Results[0]
	defer res.Reset() // an idle connection keeps no body
	if gone {
		p.giveBack(cmd, res)
		return io.EOF
	}
	answer(res)
	p.Ended(Served(res.Err))
	err := p.Flush()
	if err != nil {
		p.giveBack(cmd, res)
	}
	return err
}

// giveBack returns a delivery that did not reach the client.
func (p *Pipeline) giveBack(cmd job.Command, res *job.Result) {
	f, ok := cmd.(*job.Fetch)
	if !ok || res.Err != nil || len(res.Jobs) == 0 {
		return
	}
	ret := &job.Return{By: f.Holder}
	for i := range res.Jobs {
		ret.Refs = append(ret.Refs, res.Jobs[i].Ref())
	}
	p.Run(ret)
}

// Run runs commands that are no part of a unit and do not wait.
func (p *Pipeline) Run(cmds ...job.Command) []job.Result {
	req := &engine.Request{Commands: cmds}
	p.Do(p.engine, req)
	return req.Results
}

// EndHolder ends what the connection holds. A server that is stopping leaves it to the rules of a restart: the client
// has done nothing wrong.
func (p *Pipeline) EndHolder(h job.Holder, reason error) {
	if !errors.Is(reason, ErrDraining) {
		p.Run(&job.EndHolder{Holder: h})
	}
}
