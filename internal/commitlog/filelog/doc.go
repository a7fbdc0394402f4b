// Package filelog is a commitlog.Log in files of one directory.
//
// The files are segments: log-1, log-2 and so on. They are created at full size before they are used, and used again
// when their records were trimmed, because a sync is about twice as quick if the file system has nothing to allocate. A
// segment begins with a block that names the log it belongs to, the number of its first record, how often a segment was
// begun before it, and a random salt. Records follow, numbered without gaps. A record is
//
//	checksum   4 bytes, CRC-32C of all that follows
//	length     4 bytes, of the content
//	number     8 bytes, with the salt mixed in
//	unsynced   4 bytes, how many of the last records, this one included, may not have been on stable storage then
//	kind       4 bytes, 0 for a record and 1 for the end of a segment
//	content
//
// and begins at a multiple of 8. All numbers have their lowest byte first. The salt is there because behind the last
// record lies what clients have sent earlier: none of them may be able to send what passes for a record.
//
// A segment is left in this order: all of it is synced, the next one is begun, the end is marked and synced. So only
// the last segment may have lost something in a crash, and the mark at the end shows that a next segment is missing.
//
// Reading stops at the first record that is not whole, which is where a crash has cut the log off. It is damage instead
// if a later record, or the caller, knows that it was on stable storage. What cannot be told from a crash is listed in
// docs/guarantees.md.
package filelog
