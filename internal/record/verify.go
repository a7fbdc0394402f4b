package record

import (
	"fmt"

	"millrace/internal/job"
)

// Verify decodes a record of any kind and returns why it is not one: its key is of
// no known form, or its value is not what such a key has. What the record means, and
// whether it fits the others, it does not look at.
func Verify(key, value []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("empty key: %w", ErrFormat)
	}
	ok, err := verify(key, value)
	if err == nil && !ok {
		err = ErrFormat
	}
	if err != nil {
		return fmt.Errorf("record %x: %w", key, err)
	}
	return nil
}

// verify reports whether a key has the form of its space, and the error of its value.
func verify(key, value []byte) (ok bool, err error) {
	size, empty := len(key), len(value) == 0
	switch key[0] {
	case spaceMeta:
		_, err = DecodeShard(value)
		return size == 1, err
	case spaceQueue:
		_, _, ok = ParseQueueKey(key)
		_, err = DecodeQueue(value)
		return ok, err
	case spaceName:
		_, _, ok = ParseQueueKey(value)
		return ok && size == 5, nil
	case spaceJob:
		return verifyPart(key, value)
	case spaceList:
		return verifyEntry(key) && empty, nil
	case spaceGroup:
		_, err = DecodeGroup(value)
		return size > 5, err
	case spaceTimer:
		_, _, _, ok = ParseTimerKey(key)
		return ok && empty, nil
	case spaceKey:
		_, _, ok = parseNamed(key, spaceKey)
		_, err = DecodeKeyRef(value)
		return ok, err
	case spaceMore:
		_, rest, named := parseText(key[1:])
		_, rest, ok = parseText(rest)
		_, err = DecodeUint(value)
		return named && ok && len(rest) == 8, err
	case spaceNumber:
		_, err = DecodeRef(value)
		return size == 5, err
	case spaceSerial:
		_, err = DecodeUint(value)
		return size == 13, err
	case spaceAlike:
		_, _, _, ok = ParseAlikeKey(key)
		return ok && empty, nil
	case spaceDependant:
		_, _, ok = ParseDependantKey(key)
		return ok && empty, nil
	case spaceEphemeral:
		return size == 13 && empty, nil
	case spaceSweep:
		_, err = DecodeSweep(value)
		return size == 5, err
	default:
		return verifyShared(key, value)
	}
}

// verifyShared is for the spaces of what jobs of several queues share.
func verifyShared(key, value []byte) (ok bool, err error) {
	switch key[0] {
	case spaceEnding:
		_, _, ok = ParseEndingKey(key)
		_, err = DecodeEnding(value)
	case spaceFlush:
		if len(key) == 1 {
			_, err = DecodeFlush(value)
			return true, err
		}
		_, ok = ParseFlushKeptKey(key)
		ok = ok && len(value) == 0
	case spaceLock:
		_, _, ok = ParseLockKey(key)
		_, err = DecodeLock(value)
	case spaceOutcome:
		_, _, ok = ParseOutcomeKey(key)
		_, err = DecodeOutcome(value)
	case spaceForget:
		_, _, _, ok = ParseForgetKey(key)
		ok = ok && len(value) > 0 && value[0] == key[len(key)-1]
	case spaceBatch:
		return verifyBatch(key, value)
	case spaceBatches:
		var rest []byte
		_, rest, ok = parseText(key[1:])
		ok = ok && len(rest) == 8 && len(value) == 0
	case spaceSchedule:
		return verifySchedule(key, value)
	case spaceSchedules:
		_, _, ok = ParseScheduleNameKey(key)
		_, err = DecodeUint(value)
	case spaceHook:
		_, err = DecodeHook(key, value)
		ok = true
	case spaceHolder:
		_, err = DecodeHolder(key, value)
		ok = true
	case spaceValue:
		_, _, ok = parseNamed(key, spaceValue)
	}
	return ok, err
}

func verifyPart(key, value []byte) (ok bool, err error) {
	_, _, part, ok := ParseJobKey(key)
	if !ok {
		return false, nil
	}
	var j job.Job
	switch part {
	case PartFirst:
		err = DecodeFirst(value, &j)
	case PartBody:
		err = DecodeBody(value, &j)
	case PartFailures:
		_, err = DecodeFailures(value)
	case PartResult: // any bytes
	case PartState:
		err = DecodeMeta(value, &j)
	case PartProgress:
		_, err = DecodeProgress(value)
	default:
		return false, nil
	}
	return true, err
}

func verifyBatch(key, value []byte) (ok bool, err error) {
	_, part, ok := ParseBatchKey(key)
	if !ok {
		return false, nil
	}
	switch part {
	case BatchState:
		_, err = DecodeBatch(value)
	case BatchFixed:
		_, err = DecodeBatchDef(value)
	default:
		return false, nil
	}
	return true, err
}

func verifySchedule(key, value []byte) (ok bool, err error) {
	_, part, ok := ParseScheduleKey(key)
	if !ok {
		return false, nil
	}
	switch part {
	case BatchState:
		_, err = DecodeSchedule(value)
	case BatchFixed:
		_, err = DecodeScheduleDef(value)
	default:
		return false, nil
	}
	return true, err
}

// verifyEntry reports whether a key is the entry of a list.
func verifyEntry(key []byte) bool {
	if len(key) > 5 && List(key[5]) == ListRecheck {
		_, group, ok := ParseRecheckKey(key)
		return ok && group != ""
	}
	return len(key) >= 5+1+8
}
