// Command race does nothing but race with itself.
package main

func main() {
	n, done := 0, make(chan int)
	go func() { n++; done <- 0 }()
	n++
	<-done
	_ = n
}
