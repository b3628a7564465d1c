package main

import (
	"os"
	"time"

	"github.com/bellows-ml/bellows/cli/output"
	"github.com/bellows-ml/bellows/cli/render"
)

// view is how results are shown on stdout.
func view() render.View {
	return render.View{Style: output.StyleOf(os.Stdout), Now: time.Now(), Zone: time.Local}
}
