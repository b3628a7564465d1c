// Package child runs a part of this program as another user, in a process that
// is that user and nothing more.
//
// It promises that the process has the user's ids (real, effective, saved and
// that of the file system) and groups, no capability, and no way to gain a right
// by executing another program (no_new_privs); that it ends with its parent; and
// that it can neither keep the parent waiting, not even where the kernel does not let
// it end, nor take its memory.
// A user may do with a process of the user's what it likes, so what it says is
// believed only as far as the user itself is.
//
// A process and not a thread: much in the kernel asks who a process is and not
// what rights on files one of its threads has (sysctls do), and a thread that was
// the user could be sent signals by the user, which end the whole process.
//
// ADR 41 lists the paths that are touched in such a process only.
package child
