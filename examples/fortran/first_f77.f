C     One shot over a homogeneous medium, in FORTRAN 77. Cells count from 1.
      PROGRAM FIRST
      INTEGER NX, NY, NZ, NT
      PARAMETER (NX = 40, NY = 41, NZ = 42, NT = 200)
      REAL VP(NZ, NX, NY), RHO(NZ, NX, NY), RECORD(NT, 2)
      INTEGER SOURCE(3), RECVR(3, 2), STATUS, IX, IY, IZ
      INTEGER*8 S, MODEL, TASK
      CHARACTER*200 TEXT
      DATA SOURCE /21, 21, 3/, RECVR /21, 21, 5, NX, NY, NZ/

      DO 30 IY = 1, NY
        DO 20 IX = 1, NX
          DO 10 IZ = 1, NZ
            VP(IZ, IX, IY) = 2000.0
            RHO(IZ, IX, IY) = 1000.0
   10     CONTINUE
   20   CONTINUE
   30 CONTINUE
      CALL SCHED77_CREATE(' ', 0, S, STATUS, TEXT)
      IF (STATUS .NE. 0) GOTO 90
      CALL SCHED77_MODEL(NX, NY, NZ, 10.0, 10.0, 10.0, VP, RHO,
     &                   MODEL, STATUS, TEXT)
      IF (STATUS .NE. 0) GOTO 90
      CALL SCHED77_SHOT(S, MODEL, NT, 1E-3, 20.0, SOURCE, 2, RECVR, 1,
     &                  RECORD, 2 * NT, TASK, STATUS, TEXT)
      IF (STATUS .NE. 0) GOTO 90
      CALL SCHED77_WAIT(S, TASK, RECORD, STATUS, TEXT)
      IF (STATUS .NE. 0) GOTO 90
      WRITE (*, '(A, 1PE10.3)') 'at the middle, after 0.1 s: ',
     &                          RECORD(101, 1)

C     A cell outside the model is refused, and negative numbers.
      RECVR(2, 2) = NY + 1
      CALL SCHED77_SHOT(S, MODEL, NT, 1E-3, 20.0, SOURCE, 2, RECVR, 1,
     &                  RECORD, 2 * NT, TASK, STATUS, TEXT)
      WRITE (*, '(2A)') 'refused: ', TEXT
      CALL SCHED77_SHOT(S, MODEL, -NT, 1E-3, 20.0, SOURCE, 2, RECVR, 1,
     &                  RECORD, 2 * NT, TASK, STATUS, TEXT)
      WRITE (*, '(2A)') 'refused: ', TEXT
      CALL SCHED77_MODEL_DESTROY(MODEL, STATUS, TEXT)
      IF (STATUS .NE. 0) GOTO 90
      VP(2, 1, 1) = -1.0
      CALL SCHED77_MODEL(NX, NY, NZ, 10.0, 10.0, 10.0, VP, RHO,
     &                   MODEL, STATUS, TEXT)
      WRITE (*, '(2A)') 'refused: ', TEXT
      CALL SCHED77_DESTROY(S, STATUS, TEXT)
      IF (STATUS .EQ. 0) STOP
   90 WRITE (*, '(A)') TEXT
      STOP 1
      END
