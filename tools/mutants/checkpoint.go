package main

var ofCheckpoint = []Mutant{
	{
		Name: "files-are-synced", File: "checkpoint/digest.go", Tests: "TestDigestMakesDurable",
		Old: "go func() { synced <- f.Sync() }()", New: "synced <- nil",
		Breaks: "a committed checkpoint's files are lost in a power cut (I4)",
	},
	{
		Name: "directories-are-synced", File: "checkpoint/digest.go", Tests: "TestDigestMakesDurable",
		Old: "\tif err := inParallel(ctx, len(dirs), func(i int) error { return syncDir(b, dirs[i]) }); err != nil {\n\t\treturn nil, err\n\t}\n", New: "\t_ = dirs\n",
		Breaks: "a committed checkpoint's names are lost in a power cut (I4)",
	},
	{
		Name: "manifest-is-synced", File: "checkpoint/dirblob/dir.go", Tests: "TestPutSurvivesAPowerCut",
		Old: "err = d.fsync(f)", New: "_ = f",
		Breaks: "a committed checkpoint's manifest is lost in a power cut (I4)",
	},
	{
		Name: "manifest-directory-is-synced", File: "checkpoint/dirblob/dir.go", Tests: "TestPutSurvivesAPowerCut",
		Old: "return errors.Join(d.fsync(f), f.Close())", New: "return f.Close()",
		Breaks: "the name of a committed checkpoint's manifest is lost in a power cut (I4)",
	},
	{
		Name: "manifest-is-the-committed-one", File: "checkpoint/verify.go", Tests: "TestCheckpointsOnADisk",
		Old: "got != want {", New: "false && got != want {",
		Breaks: "a checkpoint whose manifest was replaced is resumed from (I5)",
	},
	{
		Name: "files-are-the-committed-ones", File: "checkpoint/verify.go", Tests: "TestCheckpointsOnADisk",
		Old: "case sum != f.SHA256:", New: "case false:",
		Breaks: "a checkpoint with a flipped bit is resumed from (I5)",
	},
	{
		Name: "committed-is-kept", File: "checkpoint/surplus.go", Tests: "TestSurplus",
		Old: "&& !holds(dir, r.Keep)", New: "",
		Breaks: "a committed checkpoint is deleted (I4)",
	},
	{
		Name: "uncommitted-is-kept", File: "checkpoint/surplus.go", Tests: "TestSurplus",
		Old: "ok && step < r.Below", New: "ok && step >= 0",
		Breaks: "a save on its way to being committed is deleted (I4)",
	},
	{
		Name: "part-is-the-recorded-one", File: "checkpoint/parts.go", Tests: "TestCheckpointsOnADisk",
		Old: "got != p.Part.SHA256", New: "got == \"\"",
		Breaks: "another list of files is committed than the node has digested (I4)",
	},
	{
		Name: "only-the-owners-files", File: "checkpoint/dirblob/dir.go", Tests: "TestTasksRefuseWhatOthersCanExchange",
		Old: "err = owned.CheckFile(info", New: "_ = owned.CheckFile(info",
		Breaks: "another user exchanges what is resumed from (I14)",
	},
}
