// Package bench measures parts of Bellows by themselves: one allocation, solved by
// allocator/solve or by a mixed-integer solver to compare it with.
//
// What a solver finds is valued again from its counts and the
// answer of a reference is compared with that of allocator/solve. The fields of
// Answer are a contract.
package bench
