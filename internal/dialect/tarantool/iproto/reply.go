package iproto

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

// Code is one of Tarantool's error numbers.
type Code uint32

// The codes that are used (A.10).
const (
	CodeUnsupported  Code = 5
	CodeKeyType      Code = 18
	CodeKeyParts     Code = 19
	CodeMsgPack      Code = 20
	CodeFieldType    Code = 23
	CodeRaised       Code = 32
	CodeNoProcedure  Code = 33
	CodeNoSpace      Code = 36
	CodeFieldMissing Code = 39
	CodeAccess       Code = 42
	CodeCredentials  Code = 47
	CodeUnknownType  Code = 48
	CodeNoField      Code = 69
)

const (
	// schemaVersion never changes: a client that sees another one would read the
	// schema again.
	schemaVersion = 1

	statusError = 0x8000
)

// appendHead appends size and header of a packet; setSize fills in the size.
func appendHead(b []byte, status uint32, sync uint64) []byte {
	b = append(b, msgUint32, 0, 0, 0, 0, 0x83, keyType, msgUint32)
	b = binary.BigEndian.AppendUint32(b, status)
	b = append(b, keySync, msgUint64)
	b = binary.BigEndian.AppendUint64(b, sync)
	return append(b, keySchema, msgUint32, 0, 0, 0, schemaVersion)
}

// setSize fills in the size of the packet that begins at start and ends with b.
func setSize(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-5)) //nolint:gosec // bounded by the size of a packet
	return b
}

// AppendOK appends a reply with an empty body.
func AppendOK(b []byte, sync uint64) []byte {
	return setSize(append(appendHead(b, 0, sync), 0x80), len(b))
}

// AppendNone appends a reply with an empty list.
func AppendNone(b []byte, sync uint64) []byte {
	return setSize(append(appendHead(b, 0, sync), 0x81, keyData, 0x90), len(b))
}

// BeginList appends a reply with a list as far as its values; EndList ends it.
func BeginList(b []byte, sync uint64) []byte {
	return append(appendHead(b, 0, sync), 0x81, keyData, msgArray32, 0, 0, 0, 0)
}

// listCount is where the number of values is in a reply.
const listCount = 31

// EndList ends the reply that begins at start, with as many values as have been appended.
func EndList(b []byte, start int, count uint32) []byte {
	binary.BigEndian.PutUint32(b[start+listCount:], count)
	return setSize(b, start)
}

// What the server says about itself (A.6).
const (
	protocolVersion = 3
	featureWatchers = 3
)

// AppendID appends the reply to a request of the type ID: what the server can do.
func AppendID(b []byte, sync uint64) []byte {
	start := len(b)
	b = appendHead(b, 0, sync)
	b = append(b, 0x83, keyVersion, protocolVersion, keyFeatures, 0x91, featureWatchers, keyAuthType)
	return setSize(msgp.AppendString(b, AuthMethod), start)
}

// AppendEvent appends the value of an event: true or none.
func AppendEvent(b []byte, key string, set bool) []byte {
	start := len(b)
	b = append(b, msgUint32, 0, 0, 0, 0, 0x81, keyType, typeEvent)
	if set {
		b = msgp.AppendString(append(b, 0x82, keyEvent), key)
		b = append(b, keyEventData, msgTrue)
	} else {
		b = msgp.AppendString(append(b, 0x81, keyEvent), key)
	}
	return setSize(b, start)
}

// AppendError appends an error packet. The text is never empty: clients tell an
// error by that.
func AppendError(b []byte, sync uint64, code Code, text string) []byte {
	start := len(b)
	b = appendHead(b, statusError|uint32(code), sync)
	kind := "ClientError"
	if code == CodeRaised {
		kind = "LuajitError"
	}
	b = append(b, 0x82, keyError)
	b = msgp.AppendString(b, text)
	b = append(b, keyErrorStack, 0x81, stackErrors, 0x91, 0x86, stackType)
	b = msgp.AppendString(b, kind)
	b = append(b, stackFile)
	b = msgp.AppendString(b, "millrace")
	b = append(b, stackLine, 1, stackText)
	b = msgp.AppendString(b, text)
	b = append(b, stackErrno, 0, stackCode)
	b = msgp.AppendUint32(b, uint32(code))
	return setSize(b, start)
}
