/* Words that platform headers and older code turn into macros; a public header may use none of them (M-01). */
#define near
#define far
#define small char
#define hyper long
#define interface struct
#define pascal
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(a) ((a) < 0 ? -(a) : (a))
#define IN
#define OUT
#define OPTIONAL
#define ERROR 0
#define DELETE 1
#define STRICT 1
#define TRUE 1
#define FALSE 0
#define BOOL int
#define NO_ERROR 0
#define EOF_MARK 0
#define unix_time 1
#define major(x) (x)
#define minor(x) (x)
#define check(x) (x)
#define verify(x) (x)
#define require(x) (x)
#define likely(x) (x)
#define unlikely(x) (x)
#define container_of(p, t, m) (p)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
