package main

// ofModels are the rules by which a world has devices of one model.
var ofModels = []Mutant{
	{
		Name: "each-model-is-asked-about-by-itself", File: "allocator/run.go", Tests: "TestAWorldIsOfOneModel",
		Old: "len(models) > 1 {", New: "len(models) < 0 {",
		Breaks: "a world has devices of several models, and the slowest sets the pace of all",
	},
	{
		Name: "devices-are-of-the-model-that-was-decided", File: "coordinator/answer.go", Tests: "TestStories/models",
		Old: "Model: d.Model, Excluded:", New: "Excluded:",
		Breaks: "a job is put on devices of another model than its size was decided for",
	},
	{
		Name: "lost-devices-are-replaced-by-one-model", File: "coordinator/start.go", Tests: "TestStories/models_lost$",
		Old: ", Model: modelFor(in, t)}", New: "}",
		Breaks: "a start whose devices were lost takes idle ones of several models",
	},
	{
		Name: "promises-are-planned-on-one-model", File: "coordinator/deadline.go", Tests: "TestStories/models_deadline$",
		Old: "Devices: promiseDevices(in), Plan", New: "Devices: in.nodes().usable, Plan",
		Breaks: "a deadline is promised on devices that no one world can have",
	},
	{
		Name: "placement-keeps-to-a-model", File: "allocator/place/models.go", Tests: "TestCountsOfOneModel",
		Old: "m := part[0].Model; m != \"\" {", New: "m := part[0].Model; m == \"-\" {",
		Breaks: "a count that names a model gets devices of another",
	},
	{
		Name: "what-is-kept-on-several-models-is-taken", File: "allocator/models.go", Tests: "TestWhatMustStay",
		Old: "\tq.setAside()\n", New: "",
		Breaks: "devices of a job that must keep its world are given to others",
	},
	{
		Name: "wide-jobs-wait-for-idle-devices", File: "allocator/wide.go", Tests: "TestAWideJobHasItsTurn",
		Old: "c.claim(of[k], d, n)", New: "_ = n",
		Breaks: "a job with mixed models waits for ever beside small ones that pass it",
	},
}
