package job

// Fairness says whether the groups of a queue take turns.
type Fairness struct {
	On bool
	// Weights are how many jobs in a row a group is given in its turn; one if it is not named.
	Weights map[string]uint32
}

// The bounds of what a fairness may say.
const (
	WeightMax     = 1000
	WeightsMax    = 100 // how many groups it may name: they are written with every change of the queue
	WeightNameMax = 100 // bytes of such a name
)

// Tidy returns the fairness without what has no effect, or says why it cannot be.
func (f Fairness) Tidy() (Fairness, *Error) {
	invalid := func(text string) (Fairness, *Error) { return Fairness{}, &Error{Kind: Invalid, Text: text} }
	if !f.On {
		return Fairness{}, nil
	}
	if len(f.Weights) > WeightsMax {
		return invalid("at most 100 groups of a queue have a weight of their own")
	}
	tidy := Fairness{On: true}
	for group, weight := range f.Weights {
		switch {
		case weight == 0 || weight > WeightMax:
			return invalid("a weight is 1 to 1000")
		case len(group) > WeightNameMax:
			return invalid("the name of a group that has a weight is at most 100 bytes long")
		case weight == 1:
			continue
		case tidy.Weights == nil:
			tidy.Weights = map[string]uint32{}
		}
		tidy.Weights[group] = weight
	}
	return tidy, nil
}

// Weight returns how many jobs in a row a group is given.
func (f *Fairness) Weight(group string) uint32 {
	if w := f.Weights[group]; w > 0 {
		return w
	}
	return 1
}
