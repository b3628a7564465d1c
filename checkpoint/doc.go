// Package checkpoint is how training state is saved all or nothing: what a
// checkpoint is, when one may be offered, how it is verified before it is
// loaded, and which directories are not needed any more.
//
// It promises that a checkpoint whose manifest was written is complete and
// durable; that one which was torn, flipped or lost is told from one that is
// not yet visible here; and that nothing which is to be kept counts as surplus.
// A crash at any point leaves the older checkpoint as it was.
//
//	a job's directory            root of the Blobs
//	  g00000003-k7qz2mxw4fba/    one generation
//	    step-000000000120/       one checkpoint
//	      rank-00000/…           what the ranks saved
//	      rank-00001/…
//	      .part-00001.json       a node's list, where it is too long for a record
//	      MANIFEST.json          lists and digests it all; written last, and then there are no parts
//
// All I/O goes through Blobs, so that every crash point can be tested.
//
// ADR 3 says why a checkpoint is offered whole, ADR 39 where long lists lie.
package checkpoint
