package iproto

// The keys of headers and bodies (protocol section A.3).
const (
	keyType       = 0x00
	keySync       = 0x01
	keySchema     = 0x05
	keySpace      = 0x10
	keyIndex      = 0x11
	keyLimit      = 0x12
	keyOffset     = 0x13
	keyIterator   = 0x14
	keyKey        = 0x20
	keyTuple      = 0x21
	keyFunction   = 0x22
	keyUser       = 0x23
	keyExpression = 0x27
	keyOps        = 0x28
	keyData       = 0x30
	keyError      = 0x31
	keyErrorStack = 0x52
	keyVersion    = 0x54
	keyFeatures   = 0x55
	keyEvent      = 0x57
	keyEventData  = 0x58
	keyAuthType   = 0x5b
)

// The keys within the stack of an error.
const (
	stackErrors = 0x00
	stackType   = 0x00
	stackFile   = 0x01
	stackLine   = 0x02
	stackText   = 0x03
	stackErrno  = 0x04
	stackCode   = 0x05
)
