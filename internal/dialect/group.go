package dialect

// GroupMax is how many bytes the name of a group has at most.
const GroupMax = 255
