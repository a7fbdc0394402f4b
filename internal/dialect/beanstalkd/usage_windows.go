package beanstalkd

// usage returns the processor time that the process has taken, in seconds, which is not known here.
func usage() (user, system string) { return "0.000000", "0.000000" }
