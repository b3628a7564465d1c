package promise

import (
	"github.com/bellows-ml/bellows/record"
	"github.com/bellows-ml/bellows/record/reason"
)

// Words says in an event what became of a deadline; nothing where there is none.
func Words(a *record.Answer) reason.Reason {
	switch {
	case a == nil:
		return nil
	case a.Late():
		return reason.Of(reason.New(reason.DeadlineInGrace, "deadline", moment(a.Deadline), "by", moment(a.By), "said", a.Why))
	case a.Promised:
		return reason.Of(reason.New(reason.DeadlinePromised, "deadline", moment(a.Deadline), "said", a.Why))
	}
	return reason.Of(Refused(a))
}

// Refused says why a deadline is not promised, and what would be.
func Refused(a *record.Answer) reason.Clause {
	return reason.New(reason.DeadlineRefused, "deadline", moment(a.Deadline), "said", a.Why+a.Offer.Words(nil))
}
