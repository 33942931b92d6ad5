#ifndef UNITS_H
#define UNITS_H
#define SIZE 22
#pragma xmp nodes p[4]
#pragma xmp template t[SIZE]
#pragma xmp distribute t[block] onto p
extern double shared[SIZE];
#pragma xmp align shared[i] with t[i]
#pragma xmp shadow shared[1]
extern int box[4]:[*];
void fill_shared(double factor);
double sum_shared(void);
void send_box(int me);
int other_private(void);
#endif
