// Package dirblob keeps checkpoints in a directory, on a local or a shared
// file system.
//
// It promises to touch nothing outside of that directory, whatever names and
// symbolic links say; to read and write only where no user but the one that it
// runs as could exchange what is there (package owned); that what Put wrote
// survives a power cut; and that Delete makes a directory vanish at once. A Task is a piece of work on a directory as
// a value, so that it can be done here or in a child process of another user:
// an agent that runs as root must not read and write there as root, where it
// would see other files than the owner does, or none at all.
package dirblob
